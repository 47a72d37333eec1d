//! Files of other machines: objects of S3 and files of HTTP servers, cached in pages of a pool.
//!
//! [`CloudFiles`] finds the files of an address or a pattern and reads them. It caches them in
//! blocks of 256 KiB, each a page of the pool: the pool evicts these pages before all others, to
//! slower tiers first, so that the cache uses memory that nothing else needs. A block belongs to
//! one version of a file: when the file changes, its blocks are no longer found.
//!
//! | module | content |
//! |---|---|
//! | [`address`] | addresses such as `s3://bucket/key` |
//! | [`secret`] | keys, regions and endpoints for the files below an address |
//! | `clients` | clients of S3 and HTTP servers |
//! | `cache` | the cache of blocks |
//! | [`mod@file`] | a version of a file |
//! | [`files`] | finding and reading of files |
//! | [`reader`] | a file as a stream of bytes |
//! | [`store`] | files as objects of a store, for readers of Parquet |
//! | [`upload`] | files that are written, as objects of a store |
//! | `uploads` | uploads of parts, which appear together |

#![forbid(unsafe_code)]

pub mod address;
mod cache;
mod clients;
pub mod error;
pub mod file;
pub mod files;
pub mod reader;
pub mod secret;
pub mod store;
pub mod upload;
mod uploads;

pub use cache::{CacheObserver, CacheStats};
pub use error::CloudError;
pub use file::CloudFile;
pub use files::CloudFiles;
pub use reader::CloudReader;
pub use secret::{Secret, Secrets};
pub use store::{STORE_URL, VersionStore};
pub use upload::{UPLOAD_URL, Upload, UploadStore, UploadTarget};
