"""Turn a pipeline into a plan: check, partition, fuse, explain. Pure: depends on nothing but the arguments."""
