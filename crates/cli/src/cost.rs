//! What the tokens of a model cost, where its price is configured (`models.<name>.price`).

use toolway_config::{ModelPrice, Settings};
use toolway_model::Usage;

/// A cost in the currency of the configured prices, in millionths of a millionth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost(u128);

impl Cost {
    /// The cost of a usage; `None` if the price of the model is not configured.
    pub(crate) fn of(settings: &Settings, model: &str, usage: &Usage) -> Option<Self> {
        let price = settings.models.value.get(model)?.price?;
        Some(Self::at(price, usage))
    }

    fn at(price: ModelPrice, usage: &Usage) -> Self {
        let Usage { input_tokens, output_tokens, cached_tokens, cache_write_tokens, .. } = *usage;
        let fresh = input_tokens.saturating_sub(cached_tokens + cache_write_tokens);
        let each = [
            (fresh, price.input),
            (output_tokens, price.output),
            (cached_tokens, price.cached_input),
            (cache_write_tokens, price.cache_write),
        ];
        Self(each.iter().map(|(tokens, price)| u128::from(*tokens) * u128::from(*price)).sum())
    }

    /// Both together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    /// The amount as a number.
    pub(crate) fn amount(self) -> f64 {
        self.0 as f64 / 1e12
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_have_their_own_price() {
        let price = ModelPrice { input: 3_000_000, output: 15_000_000, cached_input: 300_000, cache_write: 3_750_000 };
        let usage = Usage {
            input_tokens: 1_000_000,
            output_tokens: 100_000,
            cached_tokens: 500_000,
            cache_write_tokens: 100_000,
            reasoning_tokens: 0,
        };
        let cost = Cost::at(price, &usage);
        assert!((cost.amount() - (1.2 + 1.5 + 0.15 + 0.375)).abs() < 1e-9, "{}", cost.amount());
        assert_eq!(cost.plus(cost), Cost(cost.0 * 2));
    }
}
