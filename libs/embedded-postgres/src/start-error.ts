/** The embedded Postgres cannot start. The message is one line for the operator, without a stack. */
export class StartError extends Error {
  readonly code = 'postgres_not_started';

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'StartError';
  }
}

/** Another vault, or an operator's command, holds the data directory. */
export class DataDirectoryInUseError extends StartError {}

const reasons: Record<string, string> = {
  EACCES: 'permission denied',
  EPERM: 'operation not permitted',
  EROFS: 'the file system is read-only',
  ENOSPC: 'no space left on the disk',
  EDQUOT: 'the disk quota is used up',
  ENOTDIR: 'a file stands where a directory is needed',
};

/** Runs file-system work on `subject`. An error of the operating system becomes a one-line StartError. */
export async function explained<Result>(subject: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof StartError) throw error;
    const code = (error as NodeJS.ErrnoException).code;
    if (code === undefined) throw error;
    throw new StartError(`${subject} cannot be used: ${reasons[code] ?? code}`, { cause: error });
  }
}
