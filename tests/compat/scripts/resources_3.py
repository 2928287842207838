from nemo_curator.backends.xenna import XennaExecutor

executor = XennaExecutor(config={
    "logging_interval": 60,
    "ignore_failures": False,
    "execution_mode": "streaming",  # For large datasets
    "cpu_allocation_percentage": 0.95,
    "autoscale_interval_s": 180,
})
