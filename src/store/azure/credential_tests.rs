use std::sync::atomic::{AtomicU64, Ordering};

use azure_core::time::OffsetDateTime;

use super::*;
use crate::testing::SimClock;
use crate::time::UnixMillis;

/// Gives tokens of an hour, by number, while it works.
#[derive(Debug, Default)]
struct Source {
    fetched: AtomicU64,
    broken: std::sync::atomic::AtomicBool,
}

#[async_trait]
impl FetchToken for Source {
    async fn fetch(&self) -> Result<AccessToken, SignInError> {
        let number = self.fetched.fetch_add(1, Ordering::Relaxed) + 1;
        if self.broken.load(Ordering::Relaxed) {
            return Err(SignInError::Unreachable { reason: "nobody answers".to_owned() });
        }
        // The simulated wall clock begins at 1,800,000,000 s.
        let hour = i64::try_from(number).unwrap() * 3_600;
        let ends = OffsetDateTime::from_unix_timestamp(1_800_000_000 + hour).unwrap();
        Ok(AccessToken::new(format!("token-{number}"), ends))
    }
}

fn rig() -> (CachedCredential, Arc<Source>, Arc<SimClock>) {
    let (source, clock) = (Arc::new(Source::default()), Arc::new(SimClock::following_tokio()));
    let credential = CachedCredential::new(Arc::clone(&source) as _, Arc::clone(&clock) as _);
    (credential, source, clock)
}

async fn token(credential: &CachedCredential) -> azure_core::Result<String> {
    let token = credential.get_token(&["scope"], None).await?;
    Ok(token.token.secret().to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_token_is_fetched_once_and_again_long_before_it_ends() {
    let (credential, source, _clock) = rig();
    assert_eq!(token(&credential).await.unwrap(), "token-1");
    assert_eq!(token(&credential).await.unwrap(), "token-1");
    assert_eq!(source.fetched.load(Ordering::Relaxed), 1);
    tokio::time::sleep(Duration::from_secs(45 * 60)).await;
    // The one at hand is given at once, while the next is fetched beside it.
    assert_eq!(token(&credential).await.unwrap(), "token-1");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(token(&credential).await.unwrap(), "token-2");
}

#[tokio::test(start_paused = true)]
async fn s18_an_identity_endpoint_that_is_down_holds_up_nobody_while_the_token_counts() {
    let (credential, source, _clock) = rig();
    token(&credential).await.unwrap();
    source.broken.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(50 * 60)).await;
    assert_eq!(token(&credential).await.unwrap(), "token-1");
    tokio::time::sleep(Duration::from_secs(20 * 60)).await;
    let refused = token(&credential).await.unwrap_err();
    assert!(format!("{refused:?}").contains("nobody answers"), "{refused:?}");
    source.broken.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(token(&credential).await.is_ok());
}

/// The successor could not be fetched while the token counted, so there was time; then the token was refused.
#[tokio::test(start_paused = true)]
async fn s8_a_token_that_is_refused_is_replaced_soon_though_a_fetch_failed_a_moment_ago() {
    let (credential, source, _clock) = rig();
    token(&credential).await.unwrap();
    source.broken.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(45 * 60)).await;
    assert_eq!(token(&credential).await.unwrap(), "token-1");
    tokio::time::sleep(Duration::from_millis(10)).await;
    source.broken.store(false, Ordering::Relaxed);
    credential.renew("Bearer token-1", StatusCode::Unauthorized).await;
    tokio::time::sleep(RETRY_WITHOUT_TOKEN).await;
    assert_eq!(token(&credential).await.unwrap(), "token-3");
}

const TWO_DAYS: Duration = Duration::from_secs(2 * 86_400);

/// Whether it has ended is the service's to judge, which says so by 401.
#[tokio::test(start_paused = true)]
async fn s3_a_wall_clock_that_is_ahead_ends_no_token() {
    let (credential, _source, clock) = rig();
    clock.set_wall(clock.wall() + TWO_DAYS);
    assert_eq!(token(&credential).await.unwrap(), "token-1", "of a machine that starts so");
    let (credential, source, clock) = rig();
    token(&credential).await.unwrap();
    clock.set_wall(clock.wall() + TWO_DAYS);
    tokio::time::sleep(Duration::from_secs(31 * 60)).await;
    assert_eq!(token(&credential).await.unwrap(), "token-1");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(token(&credential).await.unwrap(), "token-2");
    // The token that it has taken the place of would have counted for so long.
    source.broken.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(25 * 60)).await;
    assert_eq!(token(&credential).await.unwrap(), "token-2");
}

#[tokio::test(start_paused = true)]
async fn s3_a_wall_clock_that_is_behind_delays_no_fetch() {
    let (credential, _source, clock) = rig();
    clock.set_wall(UnixMillis(clock.wall().0 - 2 * 86_400_000));
    token(&credential).await.unwrap();
    tokio::time::sleep(Duration::from_secs(31 * 60)).await;
    token(&credential).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(token(&credential).await.unwrap(), "token-2");
}

#[tokio::test(start_paused = true)]
async fn s20_no_token_is_shown() {
    let (credential, _source, _clock) = rig();
    token(&credential).await.unwrap();
    assert!(!format!("{credential:?}").contains("token-1"));
}
