//! What TensorFlow's dataset ops do when asked for split providers.

/// How an op answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Splitting {
    /// The splits are the values `start`, `start + step`, … before `stop`: inputs 0, 1 and 2.
    Range,
    /// One split per row of input 0.
    Rows,
    /// The one split 0.
    One,
    /// One split per element of a list laid out flat in the inputs.
    Elements,
    /// Splits without end.
    Endless,
    /// The providers of every input, in order.
    EveryInput,
    /// The providers of input 0.
    FirstInput,
    /// As [`Splitting::FirstInput`] with one input dataset; else refused. The number stands in
    /// attribute `N`.
    OnlyInput,
    /// Refused: a snapshot may be read instead of its input.
    Snapshot,
    /// Not done yet: the chunks of a snapshot that may still be growing.
    SnapshotChunks,
    /// Refused: a source that cannot be read in parts.
    Source,
    /// Refused: the op does not say what its inputs are.
    Opaque,
}

/// How the op answers; `None` if it is no dataset op that is known to take another way.
pub(super) fn splitting(op: &str) -> Option<Splitting> {
    Some(match family(op) {
        "RangeDataset" => Splitting::Range,
        "TensorSliceDataset" => Splitting::Rows,
        "TensorDataset" => Splitting::One,
        "ListDataset" => Splitting::Elements,
        "RandomDataset" => Splitting::Endless,
        "ZipDataset" | "ConcatenateDataset" | "DirectedInterleaveDataset" => Splitting::EveryInput,
        "ChooseFastestDataset" | "WeightedFlatMapDataset" => Splitting::OnlyInput,
        "SnapshotDataset" => Splitting::Snapshot,
        "ListSnapshotChunksDataset" => Splitting::SnapshotChunks,
        "CSVDataset"
        | "DataServiceDataset"
        | "FixedLengthRecordDataset"
        | "GeneratorDataset"
        | "LMDBDataset"
        | "LoadDataset"
        | "MatchingFilesDataset"
        | "SnapshotChunkDataset"
        | "SparseTensorSliceDataset"
        | "SqlDataset"
        | "TFRecordDataset"
        | "TextLineDataset" => Splitting::Source,
        "DatasetFromGraph"
        | "GroupByReducerDataset"
        | "SnapshotDatasetReader"
        | "SnapshotNestedDatasetReader" => Splitting::Opaque,
        "Identity" => Splitting::FirstInput,
        _ => return None,
    })
}

/// Whether the op's output is a dataset, judged by the naming that all of TensorFlow's keep to.
pub(super) fn is_dataset(op: &str) -> bool {
    family(op).ends_with("Dataset") || splitting(op).is_some()
}

/// Whether a worker calls the op's input with its split providers taken away.
///
/// Such an op reads its input as a nested iterator. What has been started by then is fine; what
/// is only started when it is first read, starts without split providers and yields everything.
pub(super) fn hides_split_providers(op: &str) -> bool {
    matches!(family(op), "InterleaveDataset" | "GroupByWindowDataset")
}

/// Whether the op starts its input only when it is first read.
pub(super) fn is_shuffle(op: &str) -> bool {
    matches!(family(op), "ShuffleDataset" | "ShuffleAndRepeatDataset")
}

/// Whether the op starts its input again for every pass after the first.
pub(super) fn is_repeat(op: &str) -> bool {
    family(op) == "RepeatDataset"
}

/// The op's name without what tells its versions apart: `ExperimentalCSVDataset` and
/// `CSVDatasetV2` are both `CSVDataset`.
fn family(op: &str) -> &str {
    let op = op.strip_prefix("Experimental").unwrap_or(op);
    let unnumbered = op.trim_end_matches(|digit: char| digit.is_ascii_digit());
    match unnumbered.strip_suffix('V') {
        Some(family) if unnumbered.len() < op.len() => family,
        _ => op,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_an_op_are_one_family() {
        assert_eq!(family("ExperimentalCSVDataset"), "CSVDataset");
        assert_eq!(family("DataServiceDatasetV4"), "DataServiceDataset");
        assert_eq!(family("LegacyParallelInterleaveDatasetV2"), "LegacyParallelInterleaveDataset");
        assert_eq!(family("TV"), "TV");
        assert_eq!(family("Op2"), "Op2");
    }

    #[test]
    fn parallel_forms_do_not_hide_split_providers() {
        assert!(hides_split_providers("InterleaveDataset"));
        assert!(hides_split_providers("ExperimentalGroupByWindowDataset"));
        assert!(!hides_split_providers("ParallelInterleaveDatasetV4"));
        assert!(!hides_split_providers("FlatMapDataset"));
    }
}
