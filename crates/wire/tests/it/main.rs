//! The stories of the wire, told against both faces at once.

mod by_hand;
mod every_way;
mod four_combinations;
mod leaving;
mod relay;
mod rounds;
mod service;
mod sessions;
mod standing;
mod ways;
