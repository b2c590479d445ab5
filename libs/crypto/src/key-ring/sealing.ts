import type { Json, JsonInput, Secret } from '@token-vault/contracts';
import type { DataKey } from '../data-key.ts';
import { keyIdOf, open, seal, type SealContext, type SealedValue } from '../sealed-value.ts';
import type { KeyDurability } from './data-key-inserts.ts';

export interface DataKeyRequest {
  readonly tenantId: string;
  /** e.g. `token:<id>`; 1–1000 characters. */
  readonly entity: string;
  /** e.g. `data`, `cvc`. */
  readonly purpose: string;
  /** After this instant the key opens no value; `destroyDue` then removes it. */
  readonly destroyAfter?: Date;
  /** Use `own` when no append that receives the key follows. */
  readonly durability?: KeyDurability;
}

export interface NewDataKey {
  /** Can be used at once. Wipe it when all values are sealed. */
  readonly key: DataKey;
  /**
   * Await it before appending the sealed values, and pass the key to the append: if the key is not stored, the values can never be opened.
   * When it rejects with a connection error, the key may or may not be stored; an unused key is harmless.
   */
  readonly stored: Promise<void>;
}

/** A new data key for one value that is not known yet. */
export interface PreparedSeal {
  /** Seals the value and wipes the key. Resolves when the key is stored, so the append may follow. Call it once. @throws as `createDataKey` */
  seal(value: Secret<JsonInput>): Promise<SealedValue>;
  /** Wipes the key. Call it when no value follows. */
  discard(): void;
}

type SealOptions = Pick<DataKeyRequest, 'destroyAfter' | 'durability'>;

export interface Sealing {
  /**
   * Seals a value under a new data key, whose purpose is the field, and wipes the key. Resolves when the key is stored, so the append may
   * follow. @throws as `createDataKey`
   */
  sealNew(context: SealContext, value: Secret<JsonInput>, options?: SealOptions): Promise<SealedValue>;
  /** `sealNew` in two steps: the key is made now, and the value is sealed when it is known. */
  prepareSeal(context: SealContext, options?: SealOptions): PreparedSeal;
  /**
   * Seals a later value under the key of the value before it, so that destroying one key erases all versions. Readers of the old version
   * can still open it meanwhile. @throws as `openKey`
   */
  sealAgain(context: SealContext, before: string, value: Secret<JsonInput>): Promise<SealedValue>;
  /**
   * Fetches the key of a sealed value, opens the value and wipes the key.
   * @throws KeyDestroyedError, SealBrokenError
   */
  open<T extends JsonInput = Json>(context: SealContext, sealed: string): Promise<Secret<T>>;
}

/** Runs `use` and then wipes the key, also when `use` throws. */
function useOnce<Result>(key: DataKey, use: () => Result): Result {
  try {
    return use();
  } finally {
    key.wipe();
  }
}

/** The calls of the key ring that use a data key once and always wipe it. */
export function createSealing({
  createDataKey,
  openKey,
}: {
  readonly createDataKey: (request: DataKeyRequest) => Promise<NewDataKey>;
  readonly openKey: (tenantId: string, keyId: string) => Promise<DataKey>;
}): Sealing {
  const prepareSeal: Sealing['prepareSeal'] = (context, options = {}) => {
    const { tenantId, entity, field: purpose } = context;
    const created = createDataKey({ tenantId, entity, purpose, ...options });
    // An error is thrown by `seal`, which may be called much later or never.
    created.catch(() => undefined);
    return {
      async seal(value) {
        const { key, stored } = await created;
        const sealed = useOnce(key, () => seal(key, context, value));
        await stored;
        return sealed;
      },
      discard: () => void created.then(({ key }) => key.wipe()).catch(() => undefined),
    };
  };
  return {
    prepareSeal,
    sealNew: (context, value, options) => prepareSeal(context, options).seal(value),

    async sealAgain(context, before, value) {
      const key = await openKey(context.tenantId, keyIdOf(before));
      return useOnce(key, () => seal(key, context, value));
    },

    async open(context, sealed) {
      const key = await openKey(context.tenantId, keyIdOf(sealed));
      return useOnce(key, () => open(key, context, sealed));
    },
  };
}
