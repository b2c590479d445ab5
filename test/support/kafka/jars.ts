import { execFile } from 'node:child_process';
import { access, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

/** The 3.9 line: Kafka 4 removed versions of the protocol, and kafkajs was not tested with it. */
const kafkaVersion = '3.9.1';

const cache = path.resolve(import.meta.dirname, '../../../.cache/kafka');
const jars = path.join(cache, kafkaVersion);

/** Whether the cache has them, so that Maven is not needed. */
export const hasKafkaJars = (): Promise<boolean> => exists(jars);

const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>token-vault</groupId>
  <artifactId>kafka-for-tests</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>${kafkaVersion}</version>
    </dependency>
  </dependencies>
</project>
`;

/**
 * The folder of Apache Kafka's jars: the cache (46 MB), which Maven fills the first time. Any number of processes may
 * call it at once.
 */
export async function kafkaJars(): Promise<string> {
  if (await hasKafkaJars()) return jars;
  await mkdir(cache, { recursive: true });
  const folder = await mkdtemp(path.join(cache, 'resolving-'));
  try {
    await writeFile(path.join(folder, 'pom.xml'), pom);
    const goal = ['--quiet', '--batch-mode', 'dependency:copy-dependencies', '-DoutputDirectory=jars'];
    await promisify(execFile)('mvn', [...goal, '-DincludeScope=runtime'], { cwd: folder, timeout: 300_000 });
    // The first process renames its folder. The others have resolved the same jars.
    await rename(path.join(folder, 'jars'), jars).catch(async (error: unknown) => {
      if (!(await hasKafkaJars())) throw error;
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return jars;
}

async function exists(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}
