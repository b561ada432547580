"""Code that runs on hosts: Python 3.9, standard library only, told everything, deciding nothing."""
