//! Stories about models.
