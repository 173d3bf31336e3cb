//! Answers other workers, as the runtime's server does: when a caller goes away, the call that waits for
//! it is given up.

use ::bytes::Bytes;
use rondo_core::element::Tensor;
use rondo_core::ids::RequestId;
use rondo_core::rendezvous::{Asked, Delivery, Input};
use rondo_core::status::Status;
use rondo_proto::convert::{
    Fetch, RendezvousMethod, RendezvousRequest, WorkerDevice, decode_worker_devices,
    encode_worker_devices,
};

use super::event::{Event, Purpose, What};
use super::network::{Connection, Side};
use super::worker::Being;
use super::{MS, World, bytes};
use crate::letters::End;

impl World {
    /// A request comes on a connection.
    pub(super) fn asked(&mut self, number: u64, message: &Bytes) {
        let Some(connection) = self.connections.get(number) else {
            return;
        };
        let (server, is_plain) = (connection.server.worker, connection.is_plain);
        let Some(worker) = self.worker(server).filter(|it| it.being != Being::Down) else {
            // Nobody listens there.
            self.connections.close(number, End::Server);
            self.queue.plan(self.now_ns.saturating_add(MS), Event::Breaks(number, End::Client));
            return;
        };
        let life = worker.life;
        if let Some(connection) = self.connections.get(number) {
            connection.server.life = life;
            connection.is_made = true;
        }
        self.serve(number, is_plain, message);
    }

    /// A copy of a request comes, on a connection whose other end knows nothing of it and which breaks
    /// sooner or later.
    pub(super) fn asked_by_nobody(&mut self, from: u32, to: u32, original: u64, message: &Bytes) {
        let Some(life) =
            self.worker(to).filter(|it| it.being != Being::Down).map(|worker| worker.life)
        else {
            return;
        };
        let is_plain = self.shape.plain.contains(&to);
        let number = self.connections.open(Connection {
            client: Side::new(from, 0, None),
            server: Side::new(to, life, None),
            is_plain,
            is_made: true,
            asked: None,
        });
        self.note(to, || format!("what came on connection {original} comes again on {number}"));
        self.connections.close(number, End::Client);
        self.is_broken(number, End::Server);
        self.serve(number, is_plain, message);
    }

    fn serve(&mut self, number: u64, is_plain: bool, message: &Bytes) {
        let Some(server) = self.connections.get(number).map(|it| it.server.worker) else {
            return;
        };
        let fetch = match bytes::fetch(is_plain, message) {
            Ok(fetch) => fetch,
            Err(status) => return self.refuse(number, status),
        };
        let Fetch { step, key, request, offset, chunk_bytes, finished } = fetch;
        for request in finished {
            self.step(server, Input::MarkRecvFinished { request });
        }
        let call = self.next_call();
        if let Some(connection) = self.connections.get(number) {
            connection.server.call = Some(call);
            connection.asked = Some((offset, chunk_bytes));
        }
        let asked = Some(Asked { request, keeps: !is_plain });
        let input = Input::RecvLocal { call, step, key, timeout: None, asked };
        self.ask(server, Purpose::Serve { connection: number }, input, call);
    }

    fn refuse(&mut self, number: u64, status: Status) {
        self.send_on(number, End::Server, What::Refuse { connection: number, status });
        self.connections.close(number, End::Server);
    }

    /// A machine has answered a request: the answer goes out, whoever is there to take it.
    pub(super) fn answer(&mut self, number: u64, result: Result<Delivery<Tensor>, Status>) {
        let caches = self.shape.settings.caches_responses;
        let Some(connection) = self.connections.get(number).filter(|it| it.server.is_open) else {
            return;
        };
        let (is_plain, asked) = (connection.is_plain, connection.asked);
        let message = result.and_then(|delivery| bytes::answer(&delivery, caches || !is_plain));
        let answer = match message {
            Ok(answer) => answer,
            Err(status) => return self.refuse(number, status),
        };
        let (offset, chunk_bytes) = asked.unwrap_or_default();
        let messages = match is_plain {
            true => vec![answer.join()],
            false => bytes::pieces(answer, offset, chunk_bytes),
        };
        for message in messages {
            self.send_on(number, End::Server, What::Answer { connection: number, message });
        }
        self.connections.close(number, End::Server);
    }

    /// A client has what answered its requests.
    pub(super) fn finished(&mut self, server: u32, path: &str, message: &Bytes) {
        let requests: Vec<RequestId> = match bytes::read(path, message) {
            Ok(RendezvousRequest::Finish { requests }) => requests,
            Ok(RendezvousRequest::MarkRecvFinished { request }) => vec![request],
            _ => Vec::new(),
        };
        for request in requests {
            self.step(server, Input::MarkRecvFinished { request });
        }
    }

    /// A worker reads the incarnations of another one's devices.
    pub(super) fn read_incarnation(&mut self, worker: u32, of: u32) {
        let message = bytes::request(&RendezvousRequest::GetStatus);
        self.send_loose(worker, of, What::AskStatus { message });
    }

    pub(super) fn status_asked(&mut self, from: u32, to: u32, message: &Bytes) {
        let path = RendezvousMethod::GetStatus.path();
        if !matches!(bytes::read(path, message), Ok(RendezvousRequest::GetStatus)) {
            return;
        }
        let Some(worker) = self.worker(to) else {
            return;
        };
        let name = worker.device();
        if let Some(incarnation) = worker.process.as_ref().map(|process| process.incarnation) {
            let device = WorkerDevice { name, kind: "CPU".to_owned(), incarnation };
            let message = encode_worker_devices(&[device]);
            self.send_loose(to, from, What::TellStatus { message });
        }
    }

    pub(super) fn status_told(&mut self, from: u32, to: u32, message: &Bytes) {
        let device =
            decode_worker_devices(message).ok().and_then(|devices| devices.first().cloned());
        if let (Some(device), Some(worker)) = (device, self.worker(to)) {
            worker.known.insert(from, device.incarnation);
        }
    }

    /// All workers know of each other, as if they had read it just now.
    pub(super) fn read_all_incarnations(&mut self) {
        let all: Vec<(u32, u64)> = (0..)
            .zip(&self.workers)
            .filter_map(|(number, worker)| Some((number, worker.process.as_ref()?.incarnation)))
            .collect();
        for worker in &mut self.workers {
            worker.known = all.iter().copied().collect();
        }
    }
}
