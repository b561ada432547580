"""The tables of features: the only place where the centre of the store names one."""
