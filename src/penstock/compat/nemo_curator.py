"""Importing this module makes ``import nemo_curator`` import Penstock in the same process.

>>> import penstock.compat.nemo_curator
>>> from nemo_curator.stages.resources import Resources
>>> Resources(cpus=2)
Resources(cpus=2, gpu_memory_gb=0.0, gpus=0.0, memory_gb=None)
"""

from penstock.compat.finder import install

install()
