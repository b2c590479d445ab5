/** The room on the disk of the database. */
export interface Space {
  /** @throws InsufficientStorageError when only the reserve is free: nothing more is accepted. */
  requireSpace(): void;
}
