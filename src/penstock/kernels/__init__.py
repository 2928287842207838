"""Hot loops over Arrow buffers, compiled by Numba for the very processor they run on."""
