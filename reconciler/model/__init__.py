"""The vocabulary of gpuaas as frozen data; imports no other room and touches nothing outside."""
