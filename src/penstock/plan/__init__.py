"""Pipeline in, plan out: check, partition, fuse, explain. Pure: looks at nothing but its arguments."""
