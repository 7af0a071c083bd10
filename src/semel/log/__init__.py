"""What one partition knows: its offsets, its producers, its terms. Pure."""
