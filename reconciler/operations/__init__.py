"""Operations: each module is one thing that a person asks of gpuaas, and calls the other rooms."""
