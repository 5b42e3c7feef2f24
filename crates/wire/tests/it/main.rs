//! The stories of the wire, told against both faces at once.

mod every_way;
mod four_combinations;
mod relay;
mod service;
mod standing;
mod ways;
