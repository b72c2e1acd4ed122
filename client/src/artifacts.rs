//! Download of a run's files.

use std::io::Write;

use tonic::Streaming;
use verbatim_proto::v1;

use crate::{Client, Error};

/// An open file of a run.
#[derive(Debug)]
pub struct ArtifactReader {
    client: Client,
    name: String,
    stream: Streaming<v1::ReadArtifactResponse>,
}

impl ArtifactReader {
    pub(crate) fn new(client: Client, name: &str, stream: Streaming<v1::ReadArtifactResponse>) -> Self {
        Self {
            client,
            name: name.into(),
            stream,
        }
    }

    /// Returns the next bytes; None at the end of the file.
    ///
    /// # Errors
    /// When the connection breaks or the daemon cannot read the file.
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>, Error> {
        match self.stream.message().await {
            Ok(message) => Ok(message.map(|message| message.data)),
            Err(status) => Err(self.client.translate("ReadArtifact", &status).await),
        }
    }

    /// Writes the rest of the file to `out`. Returns the number of bytes.
    ///
    /// # Errors
    /// When the daemon sends more than `most` bytes, the file cannot be read to its end, or `out` cannot be written.
    pub async fn copy_to(mut self, out: &mut dyn Write, most: u64) -> Result<u64, Error> {
        let mut bytes = 0;
        while let Some(chunk) = self.chunk().await? {
            if bytes + chunk.len() as u64 > most {
                return Err(Error::TooLong { name: self.name, most });
            }
            out.write_all(&chunk).map_err(|source| Error::Write {
                name: self.name.clone(),
                source,
            })?;
            bytes += chunk.len() as u64;
        }
        Ok(bytes)
    }
}
