import { getRandomValues, randomUUID } from './random.ts';
import { CryptoKey, subtle } from './subtle.ts';

export * from './ciphers.ts';
export * from './derivation.ts';
export * from './hashes.ts';
export {
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  generateKeyPairSync,
  KeyObject,
} from './keys.ts';
export * from './random.ts';
export * from './signatures.ts';
export { CryptoKey, subtle };
export const webcrypto = { getRandomValues, randomUUID, subtle };

export const constants = {
  RSA_PKCS1_PADDING: 1,
  RSA_NO_PADDING: 3,
  RSA_PKCS1_OAEP_PADDING: 4,
  RSA_PKCS1_PSS_PADDING: 6,
  RSA_PSS_SALTLEN_DIGEST: -1,
  RSA_PSS_SALTLEN_AUTO: -2,
  RSA_PSS_SALTLEN_MAX_SIGN: -2,
};
