//! Registry of the encodings, and the compressor that chooses among them.

use std::sync::LazyLock;

use vortex_array::{ExecutionCtx, VortexSessionExecute, array_session};
use vortex_btrblocks::schemes::{binary, float, integer, string};
use vortex_btrblocks::{BtrBlocksCompressor, BtrBlocksCompressorBuilder};
use vortex_session::VortexSession;

/// Registry of every encoding that the compressor may choose.
pub(crate) static SESSION: LazyLock<VortexSession> = LazyLock::new(|| {
    let session = array_session();
    vortex_alp::initialize(&session);
    vortex_fastlanes::initialize(&session);
    vortex_fsst::initialize(&session);
    vortex_runend::initialize(&session);
    vortex_sequence::initialize(&session);
    vortex_sparse::initialize(&session);
    vortex_zigzag::initialize(&session);
    session
});

static FRAME_OF_REFERENCE: integer::FoRScheme = integer::FoRScheme::v1();
static BIT_PACKING: integer::BitPackingScheme = integer::BitPackingScheme::v1();

/// Compressor. Its schemes decode at memory bandwidth; schemes that save a little more and decode
/// several times slower (delta, run-length with indices, OnPair, real doubles) are left out.
pub(crate) static COMPRESSOR: LazyLock<BtrBlocksCompressor> = LazyLock::new(|| {
    BtrBlocksCompressorBuilder::empty()
        // Precedes bit packing, which would need patches where an offset is enough.
        .with_new_scheme(&FRAME_OF_REFERENCE)
        .with_new_scheme(&integer::ZigZagScheme)
        .with_new_scheme(&BIT_PACKING)
        .with_new_scheme(&integer::SparseScheme)
        .with_new_scheme(&integer::IntDictScheme)
        .with_new_scheme(&integer::RunEndScheme)
        .with_new_scheme(&integer::SequenceScheme)
        .with_new_scheme(&float::ALPScheme)
        .with_new_scheme(&float::FloatDictScheme)
        .with_new_scheme(&string::StringDictScheme)
        .with_new_scheme(&string::FSSTScheme)
        .with_new_scheme(&binary::BinaryDictScheme)
        .build()
});

/// Creates a context for encoding or decoding.
pub(crate) fn context() -> ExecutionCtx {
    SESSION.create_execution_ctx()
}
