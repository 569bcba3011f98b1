//! Waits for something to be so, within a bound, and says what was seen last if it never was.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::exit::Exit;
use crate::failure::Failure;

/// Between two looks: small against what is measured, large against what a look costs.
const LOOK: Duration = Duration::from_millis(10);

/// What one look found.
#[derive(Debug)]
pub(crate) enum Look<T> {
    /// It is so.
    Seen(T),
    /// Not yet; this is how it stands.
    NotYet(String),
}

/// Looks until it is so, at most for `limit`; also tells how long that took.
///
/// # Errors
/// It never was so, or a look failed.
pub(crate) async fn until<T>(
    what: &str,
    limit: Duration,
    mut look: impl AsyncFnMut() -> Result<Look<T>>,
) -> Result<(T, Duration)> {
    let began = Instant::now();
    loop {
        let stands = match look().await? {
            Look::Seen(found) => return Ok((found, began.elapsed())),
            Look::NotYet(stands) => stands,
        };
        if began.elapsed() >= limit {
            let sentence = format!("waited {} s in vain for {what}; it stood so: {stands}", limit.as_secs());
            return Err(Failure::new(Exit::TimedOut, sentence).into());
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wait_in_vain_says_what_it_saw_last() {
        let error = until::<()>("spring", Duration::ZERO, async || Ok(Look::NotYet("snow".into()))).await;
        let failure = Failure::from_error(&error.expect_err("in vain"));
        assert_eq!(failure.sentence, "waited 0 s in vain for spring; it stood so: snow");
    }

    #[tokio::test]
    async fn a_wait_ends_when_it_is_so() {
        let mut looks = 0;
        let found = until("three", Duration::from_mins(1), async || {
            looks += 1;
            Ok(if looks == 3 { Look::Seen(looks) } else { Look::NotYet(looks.to_string()) })
        });
        assert_eq!(found.await.expect("found").0, 3);
    }
}
