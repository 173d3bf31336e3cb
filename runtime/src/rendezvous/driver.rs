//! What goes on by itself: ticks, and tensors that are fetched.

use std::sync::{Arc, Weak};

use rondo_core::rendezvous::{Failure, Input};
use tokio::sync::mpsc;

use super::fetching::Fetcher;
use super::state::{Running, Shared, Wanted};

/// What the driver is asked for.
pub(super) enum Order {
    /// Look when to tick: it is sooner than before.
    Look,
    /// Fetch a tensor.
    Fetch(Wanted),
}

/// Drives the machine until nobody has it any more.
pub(super) async fn run(
    shared: Weak<Shared>,
    mut orders: mpsc::UnboundedReceiver<Order>,
    fetcher: Arc<Fetcher>,
) {
    loop {
        let Some((clock, at)) = shared.upgrade().map(|it| (it.clock, it.next_tick())) else {
            return;
        };
        tokio::select! {
            biased;
            order = orders.recv() => match order {
                None => return,
                Some(Order::Look) => {}
                Some(Order::Fetch(wanted)) => begin(&shared, &fetcher, wanted),
            },
            () = clock.sleep_until(at) => {
                if let Some(shared) = shared.upgrade() {
                    shared.tell(Input::Tick);
                }
            }
        }
    }
}

/// Begins to fetch a tensor, unless nobody wants it any more.
fn begin(shared: &Weak<Shared>, fetcher: &Arc<Fetcher>, wanted: Wanted) {
    let Some(there) = shared.upgrade() else { return };
    let call = wanted.call;
    let Some(mut partial) = there.begin_fetch(call) else { return };
    let (shared, fetcher) = (Weak::clone(shared), Arc::clone(fetcher));
    let fetching = async move {
        let fetched = fetcher.fetch(&wanted, &mut partial).await;
        let Some(shared) = shared.upgrade() else { return };
        let input = match fetched {
            Ok(value) => Input::Fetched { call, value },
            Err(failure) => {
                if !matches!(failure, Failure::Away(_)) {
                    partial = super::assembling::Partial::default();
                }
                Input::NotFetched { call, failure }
            }
        };
        shared.end_fetch(call, partial, input);
    };
    there.run_fetch(call, Running(tokio::spawn(fetching)));
}
