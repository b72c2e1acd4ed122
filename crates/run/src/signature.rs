//! The signature of a bundle: Ed25519 over the manifest, which covers every byte of the bundle.
//!
//! The keys and signatures work with `openssl genpkey -algorithm ed25519` and `openssl pkeyutl -verify -rawin`.

use std::path::{Path, PathBuf};

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use sha2::{Digest, Sha256};
use verbatim_record::{Bundle, Signed};

use crate::error::RunError;

/// The DER prefix of the 32 bytes of an Ed25519 public key (RFC 8410).
const DER_BEFORE: [u8; 12] = [0x30, 0x2A, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70, 0x03, 0x21, 0x00];
/// PEM label of a public key.
const PUBLIC: &str = "PUBLIC KEY";
/// PEM label of a PKCS#8 private key.
const PRIVATE: &str = "PRIVATE KEY";
/// Size limit of a key file, in bytes.
const LARGEST_KEY: u64 = 64 << 10;

/// The reason why a bundle cannot be signed, or its signature is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// The file contains no suitable key.
    #[error("{path}: expected {expected}, seen {seen}; {remedy}")]
    Key {
        /// Path of the file.
        path: PathBuf,
        /// Expected content.
        expected: &'static str,
        /// Actual content.
        seen: String,
        /// Remedy.
        remedy: &'static str,
    },
    /// The bundle is signed already.
    #[error("{path} is signed already, by key {id}; --force puts another signature in its place")]
    Already {
        /// Path of the bundle.
        path: PathBuf,
        /// Id of the key that signed it.
        id: String,
    },
    /// Signature, public key and manifest do not match.
    #[error("{path} is damaged: {what}; get the bundle again from its signer")]
    Broken {
        /// Path of the file.
        path: PathBuf,
        /// Error text.
        what: String,
    },
    /// The demanded signature is missing, or the bundle has another signature.
    #[error("{path} is not signed as demanded: expected a signature by key {expected}, found {found}; ask its sender")]
    NotBy {
        /// Path of the bundle.
        path: PathBuf,
        /// Id of the demanded key.
        expected: String,
        /// Description of the actual signature.
        found: String,
    },
}

/// An Ed25519 public key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Reads a PEM file in the format of `openssl pkey -pubout`.
    ///
    /// # Errors
    /// When the file contains no such key.
    pub fn open(path: &Path) -> Result<Self, SignatureError> {
        let remedy = "`openssl pkey -in KEY.pem -pubout` writes one of a private key";
        let wrong = |seen| SignatureError::Key {
            path: path.into(),
            expected: "a public key of ed25519 in PEM",
            seen,
            remedy,
        };
        let der = section(&read(path).map_err(wrong)?, PUBLIC).map_err(wrong)?;
        Self::from_der(&der).ok_or_else(|| wrong("a public key of another kind".into()))
    }

    fn from_der(der: &[u8]) -> Option<Self> {
        der.strip_prefix(&DER_BEFORE)?.try_into().ok().map(Self)
    }

    fn der(&self) -> Vec<u8> {
        [DER_BEFORE.as_slice(), &self.0].concat()
    }

    /// Returns the key as a PEM file, with exactly the bytes that openssl would write.
    #[must_use]
    pub fn pem(&self) -> String {
        let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
        pem::encode_config(&pem::Pem::new(PUBLIC, self.der()), config)
    }

    /// Returns the SHA-256 of the key in DER, in hexadecimal:
    /// `openssl pkey -pubin -in PUBLIC.pem -outform DER | sha256sum`.
    #[must_use]
    pub fn id(&self) -> String {
        Sha256::digest(self.der())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// A private key for signatures.
#[derive(Debug)]
pub struct Signer(Ed25519KeyPair);

impl Signer {
    /// Reads a PEM file in the format of `openssl genpkey -algorithm ed25519`.
    ///
    /// # Errors
    /// When the file contains no such key.
    pub fn open(path: &Path) -> Result<Self, SignatureError> {
        let wrong = |seen| SignatureError::Key {
            path: path.into(),
            expected: "a private key of ed25519 in PEM (PKCS#8), without a passphrase",
            seen,
            remedy: "`openssl genpkey -algorithm ed25519 -out KEY.pem` makes one",
        };
        let der = section(&read(path).map_err(wrong)?, PRIVATE).map_err(wrong)?;
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der);
        pair.map(Self)
            .map_err(|error| wrong(format!("a private key of another kind ({error})")))
    }

    /// Returns the public key.
    ///
    /// # Panics
    /// Never: such a key has 32 bytes.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        PublicKey(self.0.public_key().as_ref().try_into().expect("32 bytes"))
    }
}

/// Signs a complete bundle. Writes the signature and the public key beside its manifest.
///
/// # Errors
/// When the bundle is damaged, when it is signed already and `again` is not set, or when it cannot be written.
pub fn sign_bundle(directory: &Path, signer: &Signer, again: bool) -> Result<PublicKey, RunError> {
    let mut bundle = Bundle::open(directory)?;
    if let Some(signed) = bundle.signed()
        && !again
    {
        let known =
            public_key(signed).map_or_else(|what| format!("of a key that cannot be read ({what})"), |key| key.id());
        return Err(RunError::Signature(SignatureError::Already {
            path: directory.into(),
            id: known,
        }));
    }
    let public = signer.public_key();
    let signature = signer.0.sign(bundle.manifest().as_bytes());
    bundle.put(Signed {
        signature: signature.as_ref().to_vec(),
        public_key: public.pem().into_bytes(),
    })?;
    Ok(public)
}

/// Opens a bundle, and checks its signature if it has one. A bundle with an invalid signature does not open. The
/// records are checked when they are read.
pub(crate) fn open(directory: &Path) -> Result<(Bundle, Option<PublicKey>), RunError> {
    let bundle = Bundle::open_unread(directory)?;
    let Some(signed) = bundle.signed() else {
        return Ok((bundle, None));
    };
    let broken = |name: &str, what: String| {
        RunError::Signature(SignatureError::Broken {
            path: directory.join(name),
            what,
        })
    };
    let key = public_key(signed).map_err(|what| broken("manifest.pub", what))?;
    UnparsedPublicKey::new(&ED25519, key.0)
        .verify(bundle.manifest().as_bytes(), &signed.signature)
        .map_err(|_| {
            let what = format!(
                "expected the signature of manifest.json by the key in {} ({}), seen another",
                directory.join("manifest.pub").display(),
                key.id()
            );
            broken("manifest.sig", what)
        })?;
    Ok((bundle, Some(key)))
}

/// Returns the key beside a signature. The file must have the exact bytes of [`PublicKey::pem`], so that no byte can be
/// altered unnoticed.
fn public_key(signed: &Signed) -> Result<PublicKey, String> {
    let key = section(&signed.public_key, PUBLIC)
        .ok()
        .and_then(|der| PublicKey::from_der(&der));
    key.filter(|key| key.pem().as_bytes() == signed.public_key)
        .ok_or_else(|| "expected a public key of ed25519 in PEM as `verbatim sign` writes it, seen other bytes".into())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(LARGEST_KEY + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > LARGEST_KEY {
        return Err(format!("more than {LARGEST_KEY} bytes"));
    }
    Ok(bytes)
}

/// Returns the first section with that label in a PEM file.
fn section(text: &[u8], name: &str) -> Result<Vec<u8>, String> {
    let sections = pem::parse_many(text).map_err(|error| format!("no PEM ({error})"))?;
    if let Some(found) = sections.iter().find(|section| section.tag() == name) {
        return Ok(found.contents().to_vec());
    }
    let tags: Vec<&str> = sections.iter().map(pem::Pem::tag).collect();
    Err(if tags.is_empty() {
        "no PEM".into()
    } else {
        tags.join(", ")
    })
}
