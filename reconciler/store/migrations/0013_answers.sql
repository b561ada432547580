-- When a host last answered stays known while it is silent, and since when a claim is blocked
-- stays apart from when it was made.
ALTER TABLE observation ADD COLUMN answered_at TEXT NOT NULL DEFAULT '';
UPDATE observation SET answered_at = at WHERE facts IS NOT NULL;
ALTER TABLE claim ADD COLUMN blocked_since TEXT NOT NULL DEFAULT '';
