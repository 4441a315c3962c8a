//! Messages to bytes and back. What a caller sends that is no message is the caller's mistake, not ours
//! (S19): the codec of `tonic-prost` says INTERNAL of it.

use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, DecodeBuf};
use tonic_prost::{ProstCodec, ProstEncoder};

use crate::grpc::status;

/// Bytes that are kept for the next message of a stream. Most streams say little, and there are many of them:
/// the usual 8 KiB for each direction would be most of what a waiting caller costs (S38).
const BUFFER_BYTES: usize = 512;
/// Bytes of messages that are written together, at the most.
const TOGETHER_BYTES: usize = 4 * 1024;

fn small_buffers() -> BufferSettings {
    BufferSettings::new(BUFFER_BYTES, TOGETHER_BYTES)
}

/// What the stubs of `build.rs` read and write messages with.
#[derive(Debug)]
pub(super) struct Codec<T, U>(PhantomData<(T, U)>);

/// Reads the messages of one method.
#[derive(Debug)]
pub(super) struct Decoder<U>(PhantomData<U>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = Decoder<U>;

    fn encoder(&mut self) -> ProstEncoder<T> {
        ProstCodec::<T, U>::raw_encoder(small_buffers())
    }

    fn decoder(&mut self) -> Decoder<U> {
        Decoder(PhantomData)
    }
}

impl<U: Message + Default> tonic::codec::Decoder for Decoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        U::decode(bytes).map(Some).map_err(|error| status::undecodable(&error))
    }

    fn buffer_settings(&self) -> BufferSettings {
        small_buffers()
    }
}
