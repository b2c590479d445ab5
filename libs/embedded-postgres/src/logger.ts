type Log = (fields: Record<string, unknown>, message: string) => void;

/** The part of a pino logger that the supervisor needs. */
export interface Logger {
  readonly debug: Log;
  readonly info: Log;
  readonly warn: Log;
  readonly error: Log;
}

const ignore: Log = () => {};

export const silentLogger: Logger = { debug: ignore, info: ignore, warn: ignore, error: ignore };
