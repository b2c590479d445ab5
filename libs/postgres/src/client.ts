import pg from 'pg';

/**
 * A setting of the role or of the database holds for the whole life of a session, also after it was removed. With a search path, a statement
 * finds operators and functions of another schema; the other settings change how values are read from a text and written to it, or how transactions end.
 * So each session sets them itself. `pg_catalog` alone: statements name the schema of every table of the vault.
 */
const sessionSettings = [
  'search_path = pg_catalog',
  "datestyle = 'ISO, MDY'",
  'intervalstyle = postgres',
  "timezone = 'UTC'",
  'bytea_output = hex',
  'extra_float_digits = 1',
  'standard_conforming_strings = on',
  'transform_null_equals = off',
  'array_nulls = on',
  "default_transaction_isolation = 'read committed'",
  'default_transaction_read_only = off',
]
  .map((setting) => `set ${setting}`)
  .join('; ');

type Connected = (error: Error | null, client?: VaultClient) => void;

const ignore = (): void => undefined;

/** A connection of the vault. It is used only after its session has the settings that statements rely on. */
export class VaultClient extends pg.Client {
  override connect(): Promise<this>;
  override connect(callback: Connected): void;
  override connect(callback?: Connected): Promise<this> | void {
    const connecting = this.#connect();
    if (!callback) return connecting;
    connecting.then(
      () => callback(null, this),
      (error: unknown) => callback(error as Error),
    );
  }

  /**
   * A pool listens for errors of a connection after `connect` has answered. A connection that breaks while its settings are set would end the
   * process without a listener here; the statement fails with the same error.
   */
  async #connect(): Promise<this> {
    await super.connect();
    this.on('error', ignore);
    try {
      await this.query(sessionSettings);
    } catch (error) {
      this.end().catch(() => undefined);
      throw error;
    }
    setImmediate(() => this.off('error', ignore));
    return this;
  }
}

/** A pool of such connections. */
export const createPool = (config: pg.PoolConfig): pg.Pool => new pg.Pool({ Client: VaultClient, ...config });
