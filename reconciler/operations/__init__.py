"""Operations open every door in order; each module is one thing a person asks of gpuaas."""
