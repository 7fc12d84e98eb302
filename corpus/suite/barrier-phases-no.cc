// Two loops over one array: the barrier at the end of the first orders them,
// although the second is given to the threads in another way.
#include <cstdio>
#include <vector>

int main()
{
    std::vector<long> values(50000);
    long *cells = values.data();
    const int count = static_cast<int>(values.size());
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int i = 0; i < count; i++)
            cells[i] = i;
#pragma omp for schedule(dynamic, 64)
        for (int i = 0; i < count; i++)
            cells[i] *= 2;
    }
    std::printf("%s\n", cells[2] == 4 ? "done" : "odd");
    return 0;
}
