"""What Treadle costs: the same work by hand, over an SDK and with Treadle, as ratios."""
