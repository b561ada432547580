"""Storage: attachments, topology, reclaim policy and references to volumes."""
