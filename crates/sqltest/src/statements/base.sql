CREATE TABLE items (id INTEGER, grp VARCHAR, qty BIGINT, price DECIMAL(10,2),
    weight DOUBLE PRECISION, made DATE, sold TIMESTAMP, seen TIMESTAMP WITH TIME ZONE, ok BOOLEAN);
INSERT INTO items VALUES
    (1, 'a', 10, 1.50, 0.5, '2024-01-15', '2024-01-15 08:30:00', '2024-01-15 08:30:00+00', true),
    (2, 'b', 3, 20.00, 2.25, '2024-02-29', '2024-02-29 23:59:59.5',
        '2024-03-31 00:30:00+00', false),
    (3, 'a', NULL, 7.25, NULL, NULL, '2023-12-31 00:00:00', NULL, NULL),
    (4, NULL, 8, NULL, -1.75, '2023-12-31', NULL, '2024-07-01 12:00:00+00', true),
    (5, 'c', 3, 0.00, 10.0, '2024-06-30', '2024-06-30 12:00:00', '2023-11-05 05:30:00+00', false),
    (6, 'b', -4, -3.10, 100.5, '2024-02-01', '2024-02-01 06:07:08.123456',
        '2024-10-27 01:30:00+00', true),
    (7, 'Ab c', 25, 99.99, 0.0, '2000-02-29', '2000-02-29 01:02:03',
        '2000-02-29 01:02:03+00', NULL),
    (8, 'a', 10, 7.25, 0.25, '2024-01-15', '2024-01-16 08:30:00', '2024-01-15 20:30:00+00', true);
CREATE TABLE kinds (grp VARCHAR, label VARCHAR, level INTEGER);
INSERT INTO kinds VALUES ('a', 'alpha', 1), ('b', 'beta', 2), ('b', 'bravo', 1), ('d', 'delta', 4),
    (NULL, 'none', NULL);
CREATE TABLE moves (id INTEGER, item INTEGER, step INTEGER, amount DECIMAL(12,3), done TIMESTAMP);
INSERT INTO moves VALUES
    (1, 1, 1, 2.500, '2024-01-20 10:00:00'), (2, 1, 2, 0.125, '2024-02-01 10:00:00'),
    (3, 2, 1, 10.000, '2024-03-01 00:00:00'), (4, 5, 3, NULL, NULL),
    (5, NULL, 2, 7.000, '2024-04-01 00:00:00'), (6, 9, 1, -1.250, '2023-06-01 00:00:00'),
    (7, 2, 4, 3.333, '2024-06-30 12:00:00'), (8, 1, 1, 2.500, '2024-05-05 05:05:05');
