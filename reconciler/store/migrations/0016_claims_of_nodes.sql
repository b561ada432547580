-- Whether anybody has ever had a slot is asked of each node that is recorded anew.
CREATE INDEX claim_by_node ON claim (node);
