"""A cluster: worker actors, results in the object store, machines that come and go. All of it is Ray's."""
