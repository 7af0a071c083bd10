"""Object stores: five calls, and the drivers behind them."""
