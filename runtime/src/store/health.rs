//! Remembers a store's first failure, after which nothing of it can be believed.

use std::sync::{Arc, OnceLock};

use super::{AppendError, StoreError};

/// Whether a store still works; shared by all that use it.
#[derive(Clone, Debug, Default)]
pub(super) struct Health(Arc<OnceLock<StoreError>>);

impl Health {
    /// Says so if the store has failed before.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.0.get().map_or(Ok(()), |first| {
            Err(StoreError {
                what: "cannot use any more",
                place: first.place.clone(),
                reason: format!("it failed before: {first}"),
                is_damage: first.is_damage,
            })
        })
    }

    /// Records a failure, and hands it back to be reported.
    pub(super) fn fail(&self, error: StoreError) -> StoreError {
        // Only the first one explains the others, so a later one is not recorded.
        let _ = self.0.set(error.clone());
        error
    }

    /// Records that a frame was refused for good, and hands the error back. A refusal that may pass is no
    /// failure.
    pub(super) fn refuse(&self, error: AppendError) -> AppendError {
        match error {
            AppendError::Failed(error) => self.fail(error).into(),
            passing @ (AppendError::Full { .. } | AppendError::Later { .. }) => passing,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_follows_from_damage_is_damage() {
        for is_damage in [false, true] {
            let health = Health::default();
            let failed =
                StoreError { is_damage, ..StoreError::new("cannot", Path::new("x"), &"no") };
            let _ = health.fail(failed);
            assert_eq!(health.check().map_err(|error| error.is_damage), Err(is_damage));
        }
    }
}
