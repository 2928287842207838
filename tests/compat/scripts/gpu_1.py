from nemo_curator.utils.distributed_utils import get_client

# Set up GPU-enabled Dask client
client = get_client(cluster_type="gpu")
