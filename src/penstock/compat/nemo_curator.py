"""One line on top of a script, ``import penstock.compat.nemo_curator``, and its ``nemo_curator`` is Penstock.

>>> import penstock.compat.nemo_curator
>>> from nemo_curator.stages.resources import Resources
>>> Resources(cpus=2)
Resources(cpus=2, gpu_memory_gb=0.0, gpus=0.0, memory_gb=None)
"""

from penstock.compat.finder import install

install()
