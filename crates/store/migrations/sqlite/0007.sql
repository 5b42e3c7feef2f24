-- What a caller has is added once per commit (`usage.rs`), no longer once per row.
DROP TRIGGER calls_added;
DROP TRIGGER bodies_added;
