//! The stories of the wire, told against both faces at once.

mod four_combinations;
