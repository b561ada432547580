"""Cache: plans and pages that are kept for as long as they would be made again."""
