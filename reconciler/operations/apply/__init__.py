"""Apply: the walk over waves of steps, each recorded before and after its host was asked."""
