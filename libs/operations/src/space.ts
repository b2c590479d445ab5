/** The room on the disk of the database. */
export interface Space {
  /** @throws InsufficientStorageError when what is free is kept as a reserve: nothing more is accepted. */
  requireSpace(): void;
}
