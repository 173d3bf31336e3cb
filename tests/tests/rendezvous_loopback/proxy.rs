//! A proxy that cuts connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::bed::place;

/// Stands before a server: every connection ends when so many bytes have come back over all of them since
/// the last one ended so.
pub(crate) struct Proxy {
    pub(crate) address: String,
    shared: Arc<Shared>,
}

struct Shared {
    target: String,
    cut_after: i64,
    left: AtomicI64,
    cuts: AtomicI64,
    brought: AtomicU64,
}

impl Proxy {
    /// Cuts so often, each time after so many bytes.
    pub(crate) fn before(target: &str, cuts: i64, cut_after: i64) -> Self {
        let (listener, address) = place();
        let shared = Arc::new(Shared {
            target: target.to_owned(),
            cut_after,
            left: AtomicI64::new(cut_after),
            cuts: AtomicI64::new(cuts),
            brought: AtomicU64::new(0),
        });
        tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared }
    }

    /// How often it may still cut.
    pub(crate) fn cuts_left(&self) -> i64 {
        self.shared.cuts.load(Ordering::SeqCst)
    }

    /// Bytes that it brought back.
    pub(crate) fn brought(&self) -> u64 {
        self.shared.brought.load(Ordering::SeqCst)
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let (near, _) = listener.accept().await.unwrap();
        tokio::spawn(carry(near, Arc::clone(&shared)));
    }
}

async fn carry(near: TcpStream, shared: Arc<Shared>) {
    let Ok(far) = TcpStream::connect(&shared.target).await else { return };
    let (mut from_near, mut to_near) = near.into_split();
    let (mut from_far, mut to_far) = far.into_split();
    let there = async { drop(tokio::io::copy(&mut from_near, &mut to_far).await) };
    let back = async {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from_far.read(&mut buffer).await {
            let left = shared.left.fetch_sub(length as i64, Ordering::SeqCst);
            if left <= length as i64 && shared.cuts.load(Ordering::SeqCst) > 0 {
                shared.cuts.fetch_sub(1, Ordering::SeqCst);
                shared.left.store(shared.cut_after, Ordering::SeqCst);
                return;
            }
            if to_near.write_all(&buffer[..length]).await.is_err() {
                return;
            }
            shared.brought.fetch_add(length as u64, Ordering::SeqCst);
        }
    };
    tokio::select! {
        biased;
        () = there => {}
        () = back => {}
    }
}
