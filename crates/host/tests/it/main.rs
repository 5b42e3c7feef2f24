//! The stories of the host, told against real processes and real servers.
