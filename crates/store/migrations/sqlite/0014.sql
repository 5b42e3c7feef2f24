-- What is kept about a conversation besides its messages, by name. Opaque to the store.
CREATE TABLE conversation_notes (
    conversation BLOB NOT NULL,
    name TEXT NOT NULL,
    at INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (conversation, name)
) WITHOUT ROWID;
