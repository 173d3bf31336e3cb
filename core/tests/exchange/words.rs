//! The words of the exchange: ids, roles, tensors without their bytes, settings.

use rondo_core::exchange::membership::{Membership, Sizes, State};
use rondo_core::exchange::{
    Config, InfoError, InstanceRank, Key, Mask, NodeId, Refusal, Role, ScalarType, ServerRank,
    Side, TensorInfo, WorkerRank,
};
use rondo_core::status::Status;
use rondo_core::time::Duration;

use crate::bed::membership;

#[test]
fn processes_have_the_numbers_that_stepmesh_gives_them() {
    let of = |role, rank| NodeId::of(role, InstanceRank::new(rank)).map(NodeId::get);
    assert_eq!(of(Role::Scheduler, 0), Some(1));
    assert_eq!((of(Role::Server, 0), of(Role::Server, 3)), (Some(8), Some(14)));
    assert_eq!((of(Role::Worker, 0), of(Role::Worker, 3)), (Some(9), Some(15)));
    assert_eq!(of(Role::Worker, u32::MAX), None);
    for number in 0..40 {
        let node = NodeId::new(number);
        let again = node.role().and_then(|role| NodeId::of(role, node.rank()));
        let expected = (number == 1 || number >= 8).then_some(node);
        assert_eq!(again, expected, "{number}");
    }
}

#[test]
fn masks_are_sums_of_roles() {
    assert_eq!(Mask::of_number(6), Some(Mask::SERVERS.or(Mask::WORKERS)));
    assert_eq!((Mask::of_number(0), Mask::of_number(8)), (None, None));
    assert!(Mask::ALL.contains(Role::Scheduler) && !Mask::WORKERS.contains(Role::Server));
    assert_eq!(Mask::ALL.to_string(), "schedulers+servers+workers");
}

#[test]
fn groups_and_indexes_are_parts_of_ranks() {
    let sizes = Sizes { workers: 3, servers: 2, group: 4 };
    assert_eq!((sizes.instances(Role::Worker), sizes.processes()), (12, 20));
    let rank = InstanceRank::new(9);
    assert_eq!((sizes.group_of(rank), sizes.index(rank).get()), (2, 1));
    assert_eq!(sizes.worker(WorkerRank::new(2), sizes.index(rank)), rank);
    assert_eq!(sizes.server(ServerRank::new(1), sizes.index(rank)), InstanceRank::new(5));
    let none = Sizes { workers: 3, servers: 2, group: 0 };
    assert_eq!((none.group_of(rank), none.index(rank).get()), (0, 0));
}

#[test]
fn members_are_found_by_role_and_rank_and_their_order_is_checked() {
    let good = membership(1, 2, 2);
    assert!(good.is_ordered());
    let found = good.member(Role::Worker, InstanceRank::new(1)).unwrap();
    assert_eq!((found.role, found.rank.get(), found.state), (Role::Worker, 1, State::Up));
    assert_eq!(good.member(Role::Worker, InstanceRank::new(2)), None);
    let wrong = |change: fn(&mut Membership)| {
        let mut wrong = good.clone();
        change(&mut wrong);
        assert!(!wrong.is_ordered());
    };
    wrong(|it| it.members.swap(0, 1));
    wrong(|it| it.members[1].rank = InstanceRank::new(0));
    wrong(|it| it.members[3].rank = InstanceRank::new(2));
    wrong(|it| it.members[0].role = Role::Scheduler);
}

#[test]
fn every_type_of_torch_has_its_number_and_size() {
    // As torch 2.11 tells them: number, and `torch.empty(1, dtype=…).element_size()`.
    let sizes = [
        1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, 1, 1, 4, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1, 2, 4, 8,
        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    ];
    assert_eq!(ScalarType::ALL.len(), sizes.len());
    for (number, size) in (0..).zip(sizes) {
        let scalar = ScalarType::of_number(number).unwrap();
        assert_eq!((scalar.number(), scalar.item_bytes()), (number, size), "{scalar}");
    }
    assert_eq!((ScalarType::of_number(-1), ScalarType::of_number(46)), (None, None));
    assert_eq!(ScalarType::of_number(15).map(ScalarType::name), Some("bfloat16"));
}

#[test]
fn a_tensors_size_is_that_of_its_items() {
    let bytes = |dtype, shape: &[i64]| TensorInfo::new(dtype, shape).map(|info| info.bytes());
    assert_eq!(bytes(ScalarType::BFloat16, &[3, 5]), Ok(30));
    assert_eq!(bytes(ScalarType::Double, &[]), Ok(8));
    assert_eq!(bytes(ScalarType::Double, &[4, 0]), Ok(0));
    assert_eq!(bytes(ScalarType::Byte, &[1, 2, 3, 1, 1, 1, 1, 4]), Ok(24));
    let rows = |shape: &[i64]| TensorInfo::new(ScalarType::Half, shape).unwrap().rows();
    assert_eq!((rows(&[3, 5]), rows(&[]), rows(&[0, 5])), ((3, 10), (1, 2), (0, 0)));
}

#[test]
fn shapes_that_no_tensor_has_are_refused_in_words() {
    let refused = |shape: &[i64]| TensorInfo::new(ScalarType::Float, shape).unwrap_err();
    assert_eq!(refused(&[1; 9]), InfoError::Dimensions(9));
    let shape = vec![2, -1];
    assert_eq!(refused(&[2, -1]), InfoError::Negative { index: 1, shape });
    let large = [i64::MAX, 3];
    let (shape, dtype) = (large.to_vec(), ScalarType::Float);
    assert_eq!(refused(&large), InfoError::TooLarge { shape, dtype });
    assert_eq!(TensorInfo::new(ScalarType::Float, &[i64::MAX, 3, 0]).unwrap().bytes(), 0);
    assert_eq!(TensorInfo::of_number(99, &[1]), Err(InfoError::ScalarType(99)));
    let (side, index, key) = (Side::Push, 2, Key::new(5));
    let status = Status::from(Refusal::Tensor { side, index, key, error: refused(&[1; 9]) });
    let text = "push tensor 2 (key 5): a tensor of 9 dimensions: at most 8 can be exchanged";
    assert_eq!(status.message, text);
}

#[test]
fn settings_that_make_no_sense_together_are_named() {
    assert_eq!(Config::default().check(), Ok(()));
    let wrong = |change: fn(&mut Config), name: &str| {
        let mut config = Config::default();
        change(&mut config);
        let refused = config.check().unwrap_err();
        assert!(refused.message.contains(name), "{refused}");
    };
    wrong(|it| it.key_credits = 0, "key_credits is 0");
    wrong(|it| it.heartbeat_timeout = it.heartbeat_interval, "heartbeat_timeout");
    wrong(|it| it.reconnect_grace = it.reconnect_pause_min, "reconnect_grace");
    wrong(|it| it.reconnect_pause_max = Duration::ZERO, "reconnect_pause_max");
    wrong(|it| it.worker_bytes_max = 1, "request_bytes_max");
    wrong(|it| it.heartbeat_interval = Duration::ZERO, "heartbeat_interval");
}
