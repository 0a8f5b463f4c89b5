-- What the texts of rooms mean, for who searches: docs/decisions/0023-vectors.md.

-- model: what made the vector; empty as long as nothing has. vector: of the words, as the model's embedder writes it; empty,
-- beside a model, where the model knows none of them.
ALTER TABLE room_entries ADD COLUMN model TEXT NOT NULL DEFAULT '';
ALTER TABLE room_entries ADD COLUMN vector TEXT NOT NULL DEFAULT '';

-- By its beginning, what has yet to be given a vector; whole, the newest vectors of one room and one reader.
CREATE INDEX room_entries_by_model ON room_entries (model, room, reader, seq, part);

{postgres}
-- A row with a vector may be a little over the two kilobytes from which on PostgreSQL packs words up, which a search by words
-- would have to unpack for each row.
ALTER TABLE room_entries SET (toast_tuple_target = 4080);
{end}
