"""Virtual time: any cluster, any service-time law, failures at will, and the very scheduler that runs in production."""
