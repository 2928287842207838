"""Running scripts written for ``nemo_curator`` on Penstock, without a change in them."""
