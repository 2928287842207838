"""Hot loops over Arrow buffers: Numba on the CPU, Triton on the GPU, with results equal to the bit."""
