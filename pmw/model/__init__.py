"""The synthetic distribution, its measurements, and how it is fitted to them."""
